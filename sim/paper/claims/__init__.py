"""The claims of the paper, and their verdicts on a reproduction.

A claim compares curves. Two curves of a user are compared by the mean, over all quality losses that both reach, of the
difference of the adversary's errors relative to the loss. The mean over users and its 95 % confidence interval decide.
The value of each user is a mean over replications, so that the interval covers both sources of variance. The limits of
terms such as "slight" are fixed in advance.
"""
