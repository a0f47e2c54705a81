from hypothesis import settings

# The first example of a property may have to compile a kernel: seconds.
settings.register_profile("compiling", deadline=None)
settings.load_profile("compiling")
