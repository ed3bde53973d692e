"""The models that are compared, ours among them, behind one interface; one file each."""
