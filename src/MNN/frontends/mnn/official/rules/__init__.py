"""What operators are rewritten to, so that the official engine has them or has them right: one rule an operator."""
