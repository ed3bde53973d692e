"""Models that the paper compares, ours among them, behind one interface; one file each."""
