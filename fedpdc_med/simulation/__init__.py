"""The main job: hospital sites and a public reference on one machine, from films to tables."""
