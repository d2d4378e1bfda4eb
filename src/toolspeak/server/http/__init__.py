"""HTTP glue between uvicorn and the application."""
