"""Nash-fair bandits: plain arms, one user a round, fairness across rounds; with and without privacy.

Notation: public arguments have full names, formulas single letters.

========  =======  ========================================================================
API name  symbol   meaning
========  =======  ========================================================================
epsilon   epsilon  budget of one user's reward
alpha     alpha    how cautious an index is
c         c        weight of the confidence width
tau       tau      sum of rewards at which the uniform phase ends
count     n        rewards of an arm
powers    p        power of a mean over rounds; in optimism.py the published mean of an arm
-         q        the mean that is looked for
-         x        what the mean of the rewards would then be
-         z        what the noise would then be
-         u        common slope of both rates over epsilon
-         a        epsilon z / draws; in thompson.py the first parameter of a beta law
-         b        second parameter of a beta law
arms      i        an arm
-         j        a segment, a power, or another arm
runs      r        a run
-         s        a segment of rounds
========  =======  ========================================================================
"""
