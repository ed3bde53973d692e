"""What every room uses: array types, checks, compiled loops, threads, files, warnings."""
