"""Decision loops over HTTP: a thin layer over `fairveil.loop`; every privacy step stays in the library."""
