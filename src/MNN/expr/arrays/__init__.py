"""What Vars have in common with numpy's arrays: options, and quick answers for few numbers."""
