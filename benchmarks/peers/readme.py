def with_figures(text, lines): return text
