"""Recording of requests for a replay: off unless a policy file asks for it, and then only what that policy allows.

| module | what |
|---|---|
| `policy` | the policy file: how many requests, what of them, how much, how long |
| `lines` | what of a request goes into a line; nothing of its head ever does |
| `redactors/` | what is taken out of texts, one module each |
| `segments` | the files: rotated, bounded in bytes and age, readable by their owner only |
| `recorder` | from the data plane to the files, without ever making it wait |
"""
