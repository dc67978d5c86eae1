"""The lab: one spec in, one result out; figures and tables of the papers with their claims checked."""
