"""One test file per patch. `TestStillNeeded` shows the fault in the unpatched client: if it fails, delete the patch."""
