"""Growth whose rows are on an NVIDIA card, with the same bits as in the memory of the host.

The card holds codes, slopes and raw scores. It applies steps and answers with sums of whole
numbers; the same compiled decisions as everywhere turn them into the next step and question.
"""
