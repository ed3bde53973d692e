"""Tables in files: opened and checked, read by column or by row, never held in memory as a whole."""
