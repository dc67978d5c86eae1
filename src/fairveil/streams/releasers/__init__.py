"""Releasers, one a file: public configuration, guarantee and cost of a registered name (`fairveil list releaser`)."""
