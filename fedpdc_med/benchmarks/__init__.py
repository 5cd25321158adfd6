"""The paper's benchmarks: data sets, partitions, protocols, result tables, speed."""
