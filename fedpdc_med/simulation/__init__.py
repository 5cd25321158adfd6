"""Simulation: sites and a public reference set on one machine, from films to tables."""
