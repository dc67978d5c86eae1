"""Nash-fair bandits: plain arms, one user a round, fairness across rounds; with and without privacy."""
