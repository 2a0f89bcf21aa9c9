"""Floor 1: a SensorEvent in, a Decision out."""
