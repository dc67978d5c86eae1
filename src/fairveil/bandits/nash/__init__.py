"""Nash-fair bandits: plain arms, one user a round, fairness across rounds; with and without privacy."""

from fairveil.bandits import random as random
from fairveil.bandits.environments import bernoulli as bernoulli
from fairveil.bandits.environments import extreme as extreme
from fairveil.bandits.environments import mixed as mixed
from fairveil.bandits.environments import table as table
from fairveil.bandits.nash import adap_ucb as adap_ucb
from fairveil.bandits.nash import anytime as anytime
from fairveil.bandits.nash import audits as audits
from fairveil.bandits.nash import family as family
from fairveil.bandits.nash import gdp_ncb as gdp_ncb
from fairveil.bandits.nash import ldp_ncb as ldp_ncb
from fairveil.bandits.nash import ldp_ucb as ldp_ucb
from fairveil.bandits.nash import local_nash as local_nash
from fairveil.bandits.nash import ncb as ncb
from fairveil.bandits.nash import private_nash as private_nash
from fairveil.bandits.nash import ucb as ucb
