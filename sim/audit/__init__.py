"""Audit of a location privacy mechanism from pairs of true and sent positions.

`pairs` reads and matches the rows, `displacement` converts them to metres. Each family of hypotheses is one module with
the protocol of `hypothesis`. `selection` compares them by held-out likelihood,
`attack` attacks with the fitted channel, and `page` writes the result.
"""
