from fairveil.bandits import task as task
