"""What every audit, law and mutant runs on."""
