"""The algorithms of Cummings, Gupta, Kimpara and Morgenstern (2019), printed and sound, over classes and oracles."""
