"""Private and fair classification: a private score, noisy audits of the groups, and a margin that closes the gaps."""
