"""The ncnn front end against ncnn itself."""
