"""Results as people look at them: tables, plots and pages."""
