"""`python -m pulumi_infercrane` is the `infercrane` command."""

from pulumi_infercrane.stacks.cli import main

if __name__ == "__main__":
    main()
