"""The paper's benchmarks: datasets, partitions, protocols, result tables, speed."""
