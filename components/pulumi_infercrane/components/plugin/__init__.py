"""The provider process: what the Pulumi engine talks to when it manages `infercrane:index:*` resources."""
