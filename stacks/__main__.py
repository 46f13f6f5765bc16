from pulumi_infercrane.stacks.program import main

main()
