"""What is deployed: revisions, pools, runtimes, the route and its release, as Pulumi components."""
