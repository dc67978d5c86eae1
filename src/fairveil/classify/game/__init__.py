"""The paper's games: rules of a finite class, a learner, and an auditor of subgroups.

Notation: public arguments have full names, formulas single letters.

===============  =======  =====================================================
API name         symbol   meaning
===============  =======  =====================================================
epsilon          epsilon  total budget
delta            delta    chance that it is exceeded
rho              rho      the budget in zCDP
alpha            alpha    gap that the auditor tolerates; in theorems the error
beta             beta     chance that a theorem's conclusion fails
rows             n        number of people
group_positives  k        people of label 1 in the smallest group are k n
hypotheses       h        a rule of the finite class
rounds           t        a round of T
sensitivity      sigma    standard deviation of the noise that it asks for
X                X        rows as scikit-learn has them
y                y        labels as scikit-learn has them
===============  =======  =====================================================

Formulas in docstrings also have a and g (a group, a subgroup: a union of groups), T and m (rounds, plays a round), C
and lambda (largest multiplier, the auditor's signed choice), U (payoff: error plus C times the signed gap), Phi and
A_g (that gap weighted, share of people who are in g with label 0), N_0, N_g0, N_h0, N_hg0 (people of label 0: all, in
g, accepted by h, both), n_1a and Z_1a (people of label 1 in group a), P_1a (their share), P_a (those accepted), D_a
and M (noisy sizes in denominators; printed: one), u (utility of a rule), Delta (its sensitivity), eta (how fast the
learner's weights move), eps, eps_t, eps_A (a printed budget, one pick of the learner, one of the auditor), h_t (the
rule of round t), c_0 (a constant of the VC theorem, taken as 1).
"""
