"""Trust: who vouches for a piece of evidence, and whether the policy lets them.

    attestation   the signatures an envelope or an override carries
    dsse          what exactly is signed, and checking it
    keys          private key files
    store         the policy's list of public keys
    gate          what the signatures of one envelope come to
    signing       adding a signature to a file

`cryptography` is imported when something is signed or verified, not before.
"""
