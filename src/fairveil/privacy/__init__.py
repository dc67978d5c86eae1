"""The privacy core: guarantees, events, accounting, noise, mechanisms, running sums, the ledger and audits."""
