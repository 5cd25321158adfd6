"""The medical application that simulate and FLARE share: sites, their films, the reference set, to a federation."""
