"""A failure as a Python script of its own: the vendor's class, its calls and what the law says, without kvlaw.

``write.write_script`` gives the text. ``calls`` writes one call of a trace, ``checks`` the question at the end,
``made`` how the vendor's class is imported and built; ``prelude.txt`` has the helpers
with which scripts begin, of which ``prune`` leaves those that the trace needs.
"""
