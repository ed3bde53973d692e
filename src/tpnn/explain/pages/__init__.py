"""Static pages in the style of the report: headings, tables and charts in one HTML file."""
