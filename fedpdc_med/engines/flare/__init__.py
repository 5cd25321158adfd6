"""Sites at other hospitals, over NVIDIA FLARE with mutual TLS: the same rounds. Needs the extra `federation`."""
