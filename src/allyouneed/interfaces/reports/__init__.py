"""Results for people: tables, plots and pages."""
