"""Fairness notions as numbers: welfare across people, ranks within groups, exposure by merit, rates by group."""

from fairveil.fairness import exposure as exposure
from fairveil.fairness import metrics as metrics
from fairveil.fairness import ranks as ranks
from fairveil.fairness import welfare as welfare
