from hypothesis import settings

# The first example of a property may compile a kernel, which takes seconds.
settings.register_profile("compiling", deadline=None)
settings.load_profile("compiling")
