"""The specification: the text of the laws, and the one language in which every part of kvlaw speaks.

* ``text/``: the chapters, clause by clause; ``clauses`` loads and checks them.
* ``config``, ``calls``, ``trace``, ``text_form``: what is asked of a cache.
* ``observations``: what a cache shows; ``records``: the same, told in token ids; ``laws``: conditions over records.
* ``contract``: the protocol of a Subject.  ``cite``: how code names the clause that it realises.
"""
