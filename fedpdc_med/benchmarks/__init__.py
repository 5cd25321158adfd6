"""The paper's benchmarks: experiments, runs, result tables and figures."""
