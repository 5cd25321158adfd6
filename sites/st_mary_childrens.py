"""A children's hospital: small chests, pneumonia, hardly anything else."""

from fedpdc_med.hospitals import HospitalSite, LocalSettings, Phantoms, Scanner

SITE = HospitalSite(
    name="st-mary-childrens",
    title="St Mary Children's Hospital",
    films=Phantoms(
        case_mix={"normal": 70, "pneumonia": 80, "covid-19": 8, "tuberculosis": 4},
        scanner=Scanner(
            model="paediatric DX", modality="DX", bits=12, contrast=0.9, noise=0.025, collimation=0.08, ap_share=0.5
        ),
        ages={"0-19": 1.0},
    ),
    settings=LocalSettings(epochs=1, batch_size=16, learning_rate=0.03),
)
