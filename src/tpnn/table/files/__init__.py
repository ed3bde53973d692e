"""Tables in files: opened and checked, read by column or by row, never whole in memory."""
