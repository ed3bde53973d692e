"""Times and memory: ``python -m benchmarks`` lists what is measured."""
