"""One spec in, one result out: the runner, the engines it may use, and the store of results. No plotting stack."""
