"""Sites at other hospitals, over NVIDIA FLARE: the same rounds, by mutual TLS. Needs the extra `federation`."""
