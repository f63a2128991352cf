"""The paper's whole evaluation: ten studies, 22 panels, and what becomes of its claims."""
