"""A plugin of pytest that runs IREE's tests on `incarnate.iree.runtime`."""

import incarnate.iree

incarnate.iree.redirect()
