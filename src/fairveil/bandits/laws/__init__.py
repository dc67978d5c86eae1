"""The laws that `fairveil.bandits.contract` runs every policy through."""
