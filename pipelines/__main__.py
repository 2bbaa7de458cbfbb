"""`python -m pipelines STEP`: the door that `dvc repro`, the Airflow operators and people share."""

from pipelines.cli import main

if __name__ == "__main__":
    main()
