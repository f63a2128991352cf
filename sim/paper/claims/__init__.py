"""The claims of the paper, and their verdicts on these runs.

A claim compares curves. Two curves of a user are compared by the mean, over the losses that both reach, of the
difference of the adversary's errors as a share of the loss. The mean over users and its 95 % interval decide: the value
of each user is a mean over replications, so that the interval covers both. The limits of words such as "slight" are
fixed in advance.
"""
